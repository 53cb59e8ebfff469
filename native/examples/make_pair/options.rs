//! The command line.

pub const USAGE: &str = "\
make_pair PREFIX [--option VALUE ...] writes PREFIX.client.pcap, PREFIX.server.pcap and PREFIX.truth.tsv

traffic
  --ops 20000               operations
  --connections 4
  --slots 16                operations that a connection can have in flight
  --size 8192               bytes that a READ or WRITE moves
  --service-us 1000         mean time that the server takes for a READ
  --think-us 200            mean time between a reply and the next call
  --network-us 100          way from host to host
  --seed 1
captures
  --snaplen 512             bytes kept of a packet; 0: all
  --segment 1448            TCP payload of a packet, in both captures
  --client-segment, --server-segment     in one of them: more than 1448 is what offloading shows there
  --offset-s 0 --drift-ppm 0             of the server's clock against the client's
  --microseconds 0          1: the captures' times are in microseconds, rounded down; the truth is exact
  --truth 1                 0: without PREFIX.truth.tsv
what makes it hard (P: a probability from 0 to 1)
  --coalesce P              of a message to wait for others, up to eight in one go
  --split P                 of a segment of 1 to 60 bytes in front of a message
  --same-xids 0             1: all connections count from the same XID
  --xids 0                  XIDs that a connection has, used again when the operation before is complete; 0: all 2^32
  --retransmit P            of a call to be sent again before its reply comes; half of them get a second reply
  --loss P                  of a segment to be lost on its way, and sent again 200 ms later
  --client-drop P --server-drop P        of a packet to be missing in the capture
  --decoys 0                1: the data moved look like RPC calls and replies
";

#[derive(Clone)]
pub struct Options {
    pub prefix: String,
    pub ops: u64,
    pub connections: u64,
    pub slots: u64,
    pub size: u64,
    pub service_us: f64,
    pub think_us: f64,
    pub network_us: f64,
    pub seed: u64,
    pub snaplen: u64,
    /// Of the client's capture, of the server's.
    pub segment: [u64; 2],
    pub offset_s: f64,
    pub drift_ppm: f64,
    pub microseconds: bool,
    pub truth: bool,
    pub coalesce: f64,
    pub split: f64,
    pub same_xids: bool,
    pub xids: u64,
    pub retransmit: f64,
    pub loss: f64,
    pub drop: [f64; 2],
    pub decoys: bool,
}

impl Options {
    /// None where help is asked for.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let mut options = Options {
            prefix: String::new(),
            ops: 20_000,
            connections: 4,
            slots: 16,
            size: 8192,
            service_us: 1000.0,
            think_us: 200.0,
            network_us: 100.0,
            seed: 1,
            snaplen: 512,
            segment: [1448; 2],
            offset_s: 0.0,
            drift_ppm: 0.0,
            microseconds: false,
            truth: true,
            coalesce: 0.0,
            split: 0.0,
            same_xids: false,
            xids: 0,
            retransmit: 0.0,
            loss: 0.0,
            drop: [0.0; 2],
            decoys: false,
        };
        let mut arguments = arguments.peekable();
        while let Some(name) = arguments.next() {
            if name == "--help" || name == "-h" {
                return Ok(None);
            }
            if !name.starts_with('-') {
                options.prefix = name;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number: f64 = value.parse().map_err(|_| format!("{name} {value}: not a number"))?;
            let count = number as u64;
            match name.as_str() {
                "--ops" => options.ops = count,
                "--connections" => options.connections = count,
                "--slots" => options.slots = count,
                "--size" => options.size = count,
                "--service-us" => options.service_us = number,
                "--think-us" => options.think_us = number,
                "--network-us" => options.network_us = number,
                "--seed" => options.seed = count,
                "--snaplen" => options.snaplen = count,
                "--segment" => options.segment = [count; 2],
                "--client-segment" => options.segment[0] = count,
                "--server-segment" => options.segment[1] = count,
                "--offset-s" => options.offset_s = number,
                "--drift-ppm" => options.drift_ppm = number,
                "--microseconds" => options.microseconds = count != 0,
                "--truth" => options.truth = count != 0,
                "--coalesce" => options.coalesce = number,
                "--split" => options.split = number,
                "--same-xids" => options.same_xids = count != 0,
                "--xids" => options.xids = count,
                "--retransmit" => options.retransmit = number,
                "--loss" => options.loss = number,
                "--client-drop" => options.drop[0] = number,
                "--server-drop" => options.drop[1] = number,
                "--decoys" => options.decoys = count != 0,
                _ => return Err(format!("no option {name}; --help names them")),
            }
        }
        options.check()?;
        Ok(Some(options))
    }

    fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(what.to_owned());
        if self.prefix.is_empty() {
            return wrong("PREFIX is missing; --help says more");
        }
        if !(1..=1000).contains(&self.connections) || self.slots == 0 {
            return wrong("1 to 1000 connections, and at least one slot");
        }
        // An IPv4 packet's length has 16 bits; the headers take 52 of them.
        if self.segment.iter().any(|segment| !(64..=65_483).contains(segment)) {
            return wrong("a segment has 64 to 65483 bytes");
        }
        if self.xids != 0 && self.xids <= self.slots {
            return wrong("--xids has to be more than --slots: an XID is used again only after its operation");
        }
        if self.size > 1 << 20 {
            return wrong("--size is 1048576 at most");
        }
        Ok(())
    }
}
