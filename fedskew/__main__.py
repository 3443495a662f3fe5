"""python -m fedskew."""

from fedskew.cli import main

main()
