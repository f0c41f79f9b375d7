"""Which of three datasets goes first?"""

from springline_smallest import Smallest

from springline import Dataset, Ref
from springline.persistence.decisions.priority import in_turn
from springline.persistence.model.cost_model import Costs
from springline.persistence.model.lineage import Lineage

sizes = {"logs": 5_000_000, "totals": 2_000, "report": 40_000}
waiting = {Ref(path, 1): Dataset(Ref(path, 1), bytes=size) for path, size in sizes.items()}
for ref, score in in_turn(waiting, Lineage(waiting, {}, {}), Costs([]), Smallest(), now=0.0):
    print(f"{ref}: {score.words}")
