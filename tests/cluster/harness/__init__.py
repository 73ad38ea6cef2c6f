# SPDX-License-Identifier: Apache-2.0
"""What the cluster tests and the demo are made of: a sandbox, daemons in it, clients of them."""
