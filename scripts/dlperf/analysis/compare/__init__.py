"""Two rounds -> which cells became slower or faster, and what else differs between the two."""
