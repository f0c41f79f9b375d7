"""Write datasets at memory speed and persist them in the background, the most expensive to lose first.

Private, like all subpackages: the public names are imported from `springline`.
"""
