//! Bytes in, XDR values out (RFC 4506): a cursor for which the end of the bytes is an answer, never a panic.

/// What is left to read. Every read that the bytes do not reach gives `None`; a reader then stops for good.
#[derive(Clone, Copy, Debug)]
pub struct Xdr<'a>(&'a [u8]);

impl<'a> Xdr<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Fixed-length opaque data (RFC 4506 section 4.9) of a length that needs no padding.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// An unsigned integer, an enumeration or a boolean.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// So many of them, in one go.
    #[inline]
    pub fn words<const N: usize>(&mut self) -> Option<[u32; N]> {
        let (head, rest) = self.0.split_at_checked(4 * N)?;
        self.0 = rest;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(head.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Some(words)
    }

    /// An unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A boolean, which is 0 or 1 (RFC 4506 section 4.4): anything else says that this is not where it was taken to be.
    #[inline]
    pub fn bool(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Step over `count` bytes, whose padding is counted in.
    #[inline]
    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    /// `count` bytes; the padding that makes them a multiple of four is stepped over, as far as it was captured.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest.get(count.wrapping_neg() % 4..).unwrap_or_default();
        Some(head)
    }

    /// Variable-length opaque data or a string (RFC 4506 section 4.10).
    #[inline]
    pub fn opaque(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(usize::try_from(count).ok()?)
    }

    /// Step over an array of `count` elements of `size` bytes each, where its count comes first.
    #[inline]
    pub fn skip_array(&mut self, size: usize) -> Option<()> {
        let count = usize::try_from(self.u32()?).ok()?;
        self.skip(count.checked_mul(size)?)
    }

    /// Step over an array with `element`, which has to read something: so the bytes bound a count that is made up.
    #[inline]
    pub fn each(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        for _ in 0..self.u32()? {
            element(self)?;
        }
        Some(())
    }

    /// Step over optional data (RFC 4506 section 4.19) of `size` bytes.
    #[inline]
    pub fn skip_optional(&mut self, size: usize) -> Option<()> {
        if self.bool()? { self.skip(size) } else { Some(()) }
    }

    /// Step over the fields that the letters say: `w` a word, `h` a hyper or verifier, `s` sixteen bytes (stateid4,
    /// sessionid4, deviceid4), `o` opaque data or a string, `b` an array of words (bitmap4).
    pub fn fields(&mut self, letters: &str) -> Option<()> {
        for letter in letters.bytes() {
            match letter {
                b'w' => self.skip(4)?,
                b'h' => self.skip(8)?,
                b's' => self.skip(16)?,
                b'o' => self.opaque().map(drop)?,
                b'b' => self.skip_array(4)?,
                _ => return None,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the bytes do not hold is `None`, and a count that is made up is not believed.
    #[test]
    fn ends() {
        assert_eq!(Xdr::new(&[0; 3]).u32(), None);
        assert_eq!(Xdr::new(&[0; 7]).u64(), None);
        assert_eq!(Xdr::new(&[0, 0, 0, 2]).bool(), None);
        for count in [5, 1 << 31, u32::MAX - 2, u32::MAX] {
            let bytes = [&count.to_be_bytes()[..], &[0; 4]].concat();
            assert_eq!(Xdr::new(&bytes).opaque(), None);
            assert_eq!(Xdr::new(&bytes).skip_array(16), None);
            assert_eq!(Xdr::new(&bytes).each(|element| element.skip(4)), None);
            assert_eq!(Xdr::new(&bytes).fields("wb"), Some(()));
        }
    }

    /// Opaque data are followed by what makes them a multiple of four, which may be cut off.
    #[test]
    fn padding() {
        let bytes = [0, 0, 0, 3, b'a', b'b', b'c', 0, 0, 0, 0, 9];
        let mut xdr = Xdr::new(&bytes);
        assert_eq!((xdr.opaque(), xdr.u32()), (Some(&b"abc"[..]), Some(9)));
        let mut xdr = Xdr::new(&bytes[..7]);
        assert_eq!((xdr.opaque(), xdr.rest()), (Some(&b"abc"[..]), &[][..]));
    }
}
