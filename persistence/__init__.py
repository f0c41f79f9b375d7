"""Write datasets at memory speed and persist them behind the job's back, the dearest to lose first.

Private, as all below: what is public is imported from `springline`.
"""
