"""Everything of Springline that knows Airflow: connections, operators, triggers, the listener of DAG runs."""
