"""Which of three datasets goes first?"""

from springline_smallest import Smallest

from springline import Costs, Dataset, Lineage, Ref, in_turn

sizes = {"logs": 5_000_000, "totals": 2_000, "report": 40_000}
waiting = {Ref(path, 1): Dataset(Ref(path, 1), bytes=size) for path, size in sizes.items()}
for ref, score in in_turn(waiting, Lineage(waiting, {}, {}), Costs([]), Smallest(), now=0.0):
    print(f"{ref}: {score.words}")
