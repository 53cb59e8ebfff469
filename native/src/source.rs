//! A file, pipe or FIFO in, its decompressed bytes out: read in large pieces, never as a whole, without seeking.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder as Lz4Decoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder as ZstdDecoder};

/// Bytes asked of the input at once. It stays in the second-level cache: larger pieces are slower to read.
const PIECE: usize = 256 << 10;
/// What xz may take for its dictionary, KiB.
const XZ_MEMORY_KIB: u32 = 128 << 10;
/// What may be decoded of a zstd frame before any of it can be collected: so much of it `ruzstd` keeps in 128 MiB, and
/// refuses a larger window itself, but not in the first frame. It suffices for windows of 64 MiB.
const ZSTD_KEPT: usize = 100 << 20;
/// The longest block of a zstd frame, decompressed.
const ZSTD_BLOCK: usize = 128 << 10;
/// Said of compressed data that are cut: each decompressor has words of its own.
const CUT: &str = "the compressed data end too early";
/// So much may come out of anything; of more than that no more than so many times what went in, unless this variable says
/// another number. Captures of nothing but zeros come to some 600 times their packed size, bombs to 800,000 times.
const ANY_UNPACKED: u64 = 1 << 30;
const RATIO: u64 = 2000;
const RATIO_NAME: &str = "NFSLAT_UNPACK_RATIO";
/// Enough for every magic number asked for here, and just the header of a skippable frame.
const HEAD: usize = 8;

/// The bytes of one input, decompressed; some of them are held in a buffer that packets are borrowed from.
pub struct Source {
    input: Box<dyn Read + Send>,
    /// `buffer[start..end]` was read and not yet consumed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    compression: Option<Compression>,
    input_bytes: Arc<AtomicU64>,
    unpacked: u64,
    /// As the constants of these names say.
    pub(crate) any_unpacked: u64,
    ratio: u64,
    over: bool,
    failure: Option<io::Error>,
}

impl Source {
    /// Reads as far as the first bytes, and finds the decompressor that they ask for.
    pub fn open(input: Box<dyn Read + Send>) -> io::Result<Source> {
        let input_bytes = Arc::new(AtomicU64::new(0));
        let mut input = Counted { input, bytes: Arc::clone(&input_bytes) };
        let mut head = peek(&mut input)?;
        while let Some(length) = skippable_frame(&head) {
            io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
            head = peek(&mut input)?;
        }
        let compression = Compression::of(&head);
        let mut buffer = vec![0; PIECE];
        let mut end = 0;
        let input = match compression {
            Some(compression) => {
                let whole = io::Cursor::new(head).chain(input);
                compression.decoder(BufReader::with_capacity(PIECE, whole))
            }
            None => {
                end = head.len();
                buffer[..end].copy_from_slice(&head);
                Box::new(input)
            }
        };
        let ratio = std::env::var(RATIO_NAME).ok().and_then(|ratio| ratio.parse().ok()).unwrap_or(RATIO);
        Ok(Source {
            input,
            buffer,
            start: 0,
            end,
            compression,
            input_bytes,
            unpacked: 0,
            any_unpacked: ANY_UNPACKED,
            ratio,
            over: false,
            failure: None,
        })
    }

    /// Whether `length` bytes are held, after reading as many as that takes.
    #[inline]
    pub fn ensure(&mut self, length: usize) -> bool {
        self.end - self.start >= length || self.fill(length)
    }

    /// The bytes that are held.
    #[inline]
    pub fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Lets go of the first `length` bytes held, and returns where they are until the next `ensure` or `skip`.
    #[inline]
    pub fn take(&mut self, length: usize) -> usize {
        let start = self.start;
        self.start += length.min(self.end - start);
        start
    }

    /// `length` bytes from `start` on, which lie in what `take` last let go of.
    #[inline]
    pub fn taken(&self, start: usize, length: usize) -> &[u8] {
        &self.buffer[start..][..length]
    }

    /// Lets go of `length` bytes, held or not; false where the input ends before.
    pub fn skip(&mut self, mut length: u64) -> bool {
        loop {
            let held = (self.end - self.start) as u64;
            if length <= held {
                self.start += length as usize;
                return true;
            }
            length -= held;
            self.start = self.end;
            if !self.ensure(1) {
                return false;
            }
        }
    }

    /// Bytes of the input, still compressed, that were read so far.
    pub fn input_bytes(&self) -> u64 {
        self.input_bytes.load(Ordering::Relaxed)
    }

    /// Why reading stopped, where it was not the end of the input.
    pub fn failure(&mut self) -> Option<io::Error> {
        let error = self.failure.take()?;
        Some(match self.compression {
            Some(compression) if error.raw_os_error().is_none() => {
                let cut = error.kind() == io::ErrorKind::UnexpectedEof;
                let reason = if cut { CUT.to_owned() } else { error.to_string() };
                io::Error::new(error.kind(), format!("{}: {reason}", compression.name()))
            }
            _ => error,
        })
    }

    /// Reads until `length` bytes are held. The buffer grows only when it is full of what was read.
    #[cold]
    #[inline(never)]
    fn fill(&mut self, length: usize) -> bool {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < length && !self.over {
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.end, 0);
            }
            let free = &mut self.buffer[self.end..];
            match self.input.read(free) {
                Ok(0) => self.over = true,
                Ok(read) => {
                    self.end += read.min(free.len());
                    self.unpacked += read as u64;
                    self.refuse_bomb();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    self.over = true;
                }
            }
        }
        self.end >= length
    }
}

impl Source {
    fn refuse_bomb(&mut self) {
        let most = self.any_unpacked.max(self.ratio.saturating_mul(self.input_bytes()));
        if self.compression.is_some() && self.unpacked > most {
            let text = format!("it comes to over {} times its size; set {RATIO_NAME} if it is to be read", self.ratio);
            self.failure = Some(io::Error::other(text));
            self.over = true;
        }
    }
}

/// The first bytes; fewer only where the input has no more.
fn peek(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    input.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Bytes behind the header of a frame that says nothing; zstd and lz4 share its magic numbers (RFC 8878, 3.1.2).
fn skippable_frame(head: &[u8]) -> Option<u64> {
    match *head {
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d] => Some(u32::from_le_bytes([a, b, c, d]).into()),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Compression {
    Gzip,
    Zstd,
    Lz4,
    Bzip2,
    Xz,
}

impl Compression {
    /// What the first bytes of a file say of its compression.
    fn of(head: &[u8]) -> Option<Compression> {
        match *head {
            [0x1f, 0x8b, 8, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Compression::Lz4),
            // Behind the level a first block or, where there is nothing to decompress, the end.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, 0x41 | 0x72, 0x59 | 0x45, ..] => Some(Compression::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Lz4 => "lz4",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
        }
    }

    fn decoder(self, input: impl BufRead + Send + 'static) -> Box<dyn Read + Send> {
        match self {
            Compression::Gzip => Box::new(MultiGzDecoder::new(input)),
            Compression::Zstd => Box::new(Zstd::new(input)),
            Compression::Lz4 => Box::new(Lz4(Lz4Decoder::new(Whole(input)))),
            Compression::Bzip2 => Box::new(MultiBzDecoder::new(input)),
            Compression::Xz => Box::new(XzReader::new_mem_limit(input, true, XZ_MEMORY_KIB)),
        }
    }
}

/// Counts what is read through it.
struct Counted {
    input: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Whether anything is left to read.
fn is_more(input: &mut impl BufRead) -> io::Result<bool> {
    Ok(!input.fill_buf()?.is_empty())
}

/// The frames of a zstd file, one behind the other: `ruzstd` decodes one.
struct Zstd<R> {
    input: R,
    decoder: ZstdDecoder,
    in_frame: bool,
    /// Bytes decoded, at most, since any could be collected: the decoder keeps a window of them, however large.
    kept: usize,
    failure: Option<io::Error>,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> Zstd<R> {
        Zstd { input, decoder: ZstdDecoder::new(), in_frame: false, kept: 0, failure: None }
    }

    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.input) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                io::copy(&mut self.input.by_ref().take(length.into()), &mut io::sink())?;
            }
            Err(error) => return Err(self.reason(error)),
        }
        Ok(())
    }

    /// Decodes a few blocks. Where that fails, an empty last block sets free what the decoder keeps as its window.
    fn step(&mut self) {
        let some = BlockDecodingStrategy::UptoBytes(PIECE);
        self.kept += PIECE + ZSTD_BLOCK;
        self.failure = match self.decoder.decode_blocks(&mut self.input, some) {
            Err(error) => Some(self.reason(error)),
            Ok(false) if self.kept > ZSTD_KEPT => Some(io::Error::other("its window is larger than 64 MiB")),
            Ok(_) => return,
        };
        let last = [1, 0, 0, 0, 0, 0, 0];
        let _ = self.decoder.decode_blocks(&last[..], BlockDecodingStrategy::All);
    }

    /// The input's own error, where that is what the decoder met.
    fn reason(&mut self, error: FrameDecoderError) -> io::Error {
        match is_more(&mut self.input) {
            Ok(true) => io::Error::other(error),
            Ok(false) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => error,
        }
    }

    /// Ends a frame whose every byte was read.
    fn finish(&mut self) -> io::Result<()> {
        self.in_frame = false;
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(computed)) if stored != computed => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not match"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.in_frame && self.decoder.can_collect() > 0 {
                self.kept = 0;
                return self.decoder.read(buffer);
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            if self.in_frame && !self.decoder.is_finished() {
                self.step();
            } else if self.in_frame {
                self.finish()?;
            } else if is_more(&mut self.input)? {
                self.begin()?;
            } else {
                return Ok(0);
            }
        }
    }
}

/// The frames of an lz4 file, one behind the other: `lz4_flex` stops after each.
struct Lz4<R: BufRead>(Lz4Decoder<Whole<R>>);

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.0.read(buffer)?;
            if read > 0 || !is_more(&mut self.0.get_mut().0)? {
                return Ok(read);
            }
        }
    }
}

/// An input that must not end where bytes are asked of it: `lz4_flex` would take a cut frame for a whole one.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::Error::other(CUT)),
            read => Ok(read),
        }
    }
}
