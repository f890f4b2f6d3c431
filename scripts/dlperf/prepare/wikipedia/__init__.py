"""Makes the text of BERT's and ELECTRA's pre-training from a dump of Wikipedia."""
