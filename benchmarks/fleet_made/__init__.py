"""Made fleets: one NFS server and many clients, played or laid out -> captures, and what is true of them."""
