"""What it takes to run Steersman on hosts: units, examples of settings, an installer, container files."""
