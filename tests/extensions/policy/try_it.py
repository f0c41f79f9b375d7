"""Which of three datasets goes first?"""

from springline_smallest import Smallest

from springline import CostModel, Dataset, Lineage, Ref, order_by_priority

sizes = {"logs": 5_000_000, "totals": 2_000, "report": 40_000}
waiting = {Ref(path, 1): Dataset(Ref(path, 1), bytes=size) for path, size in sizes.items()}
for ref, score in order_by_priority(waiting, Lineage(waiting, {}, {}), CostModel([]), Smallest(), now=0.0):
    print(f"{ref}: {score.reason}")
