"""Correlates an NFS server's capture with a client's and says where the latency arises."""

__version__ = "0.1.0"
