//! Packet captures in, columns of RPC operations out: the engine behind `nfslat._native`.

#[cfg(feature = "python")]
mod python;
