"""Images from their archives or class folders to shards in each framework's own format."""
