"""Write datasets at memory speed and persist them behind the job's back, the dearest to lose first."""
