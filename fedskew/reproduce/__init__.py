"""The published tables and figures as recipes: run what is missing, compare, judge every claim."""
