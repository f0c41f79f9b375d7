"""Pages in Airflow's UI: plain HTML, one style sheet and small JavaScript modules, served as they are."""
