"""The four dashboards, a module each. None computes anything: what is drawn is written out, panel by panel."""
