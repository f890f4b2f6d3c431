"""Check a round against its raw records, and pack a round with everything that its report needs."""
