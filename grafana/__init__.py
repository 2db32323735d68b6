"""Dashboards as code, and the files that Prometheus and Grafana read. `python -m grafana` writes dashboards/*.json."""
