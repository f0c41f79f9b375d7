"""A real Airflow, and a browser that looks at its pages."""
