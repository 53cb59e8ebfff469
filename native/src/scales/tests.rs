//! SYNs in, shifts out.

use super::*;
use crate::testing::bare_syn;

/// Windows are scaled if both SYNs say so, not scaled if one does not, and unknown if one was not seen; 0 is always 0.
#[test]
fn scales() {
    let with = [3, 3, 7];
    let cases: [(&[&[u8]; 2], Option<u8>); 3] =
        [(&[&with, &with], Some(7)), (&[&with, &[]], Some(0)), (&[&[], &with], Some(0))];
    for (options, scale) in cases {
        let mut scales = Scales::default();
        for (direction, options) in options.iter().enumerate() {
            scales.syn(direction, &bare_syn(options, 20 + options.len() as u8));
        }
        assert_eq!((scales.of(0), scales.of(1)), (scale, scale));
    }
    let mut scales = Scales::default();
    scales.syn(0, &bare_syn(&[3, 3, 7], 23));
    assert_eq!(scales.of(0), None);
    scales.syn(1, &bare_syn(&[], 32)); // cut off
    assert_eq!(scales.of(0), None);
    scales.syn(1, &bare_syn(&[], 20));
    assert_eq!((scales.of(0), scales.of(1)), (Some(0), Some(0)));
}
