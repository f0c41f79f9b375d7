"""Pages in Airflow's UI: plain HTML, one style sheet and small modules of script, served as they lie here."""
