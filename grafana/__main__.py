"""`python -m grafana`: write dashboards/*.json anew."""

import sys

from grafana.build import write

if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in write())
