"""What the cluster tests and the demo are made of: a sandbox, daemons in it, clients of them."""
