"""Real kernels with a cause built in: User-Mode-Linux guests as NFS server and clients, their captures, the truth."""
