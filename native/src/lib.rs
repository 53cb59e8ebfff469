//! Packet captures in, columns of RPC operations out: the engine behind `nfslat._native`.
//!
//! ```text
//! source -> container -> link, fragments -> flows -> stream -> rpc, nfs, compound -> ops -> columns
//!                                                                                -> news -> files
//!                          -> apart (a decoder for each pair of addresses)
//!                          -> windows (what has ended so far, again and again)
//!                          -> split (captures of some pairs of addresses), cut (of some messages)
//!                          -> ring (the newest packets, as they are)
//!                                        -> conversations -> packets
//! ```
//!
//! README.md lists the modules in the order in which they import each other.

pub mod apart;
pub mod call;
pub mod callbacks;
pub mod capture;
pub mod columns;
pub mod compound;
pub mod container;
pub mod conversations;
pub mod copies;
pub mod cut;
pub mod decoder;
pub mod dispatch;
pub mod erf;
pub mod feed;
pub mod files;
pub mod flows;
pub mod fragments;
pub mod heard;
pub mod index;
pub mod interned;
pub mod kernels;
pub mod kinds;
pub mod lane;
pub mod lines;
pub mod link;
pub mod loads;
pub mod mptcp;
pub mod news;
pub mod nfs;
pub mod operations;
pub mod ops;
pub mod order;
pub mod pace;
pub mod packets;
pub mod place;
pub mod plausible;
pub mod prints;
pub mod protocol;
pub mod ranges;
pub mod regularity;
pub mod resent;
pub mod results;
pub mod ring;
pub mod rpc;
pub mod scales;
pub mod segments;
pub mod source;
pub mod split;
pub mod stream;
pub mod sums;
pub mod sweep;
pub mod table;
pub mod take;
pub mod tcp;
pub mod traffic;
pub mod unread;
pub mod waits;
pub mod windows;
pub mod xdr;
pub mod xids;

#[cfg(feature = "python")]
mod python;
#[cfg(test)]
mod testing;
