"""A round's records and certificates -> measurements -> cells, with flags as warnings."""
