//! Columns of numbers in, lines of text out: CSV (`nfslat.export.csv`), and JSON of spans (`nfslat.export.perfetto`).

/// What the numbers of a column stand for.
#[derive(Clone, Debug)]
pub enum Form {
    /// Nothing: all that stands there is in front of it.
    Nothing,
    Decimal,
    Hex,
    /// Hexadecimal with eight digits.
    Hex8,
    /// Nanoseconds, none of them negative, as microseconds with three decimals.
    Micros,
    /// Nanoseconds as seconds, of which six decimals are shown, after division in 64 bits.
    Seconds,
    /// Nanoseconds since 1970 as ISO 8601, in UTC.
    Moment,
    /// Rows of these texts.
    Text(Vec<Box<str>>),
}

impl Form {
    /// By its name; `texts` are there for one form alone, and none other has some.
    pub fn of(name: &str, texts: Option<Vec<Box<str>>>) -> Option<Form> {
        Some(match (name, texts) {
            ("text", Some(texts)) => Form::Text(texts),
            ("nothing", None) => Form::Nothing,
            ("decimal", None) => Form::Decimal,
            ("hex", None) => Form::Hex,
            ("hex8", None) => Form::Hex8,
            ("micros", None) => Form::Micros,
            ("seconds", None) => Form::Seconds,
            ("moment", None) => Form::Moment,
            _ => return None,
        })
    }
}

/// A column: `always` stands in front of it in each row, `before` behind that where the row is not null.
#[derive(Clone, Debug)]
pub struct Column {
    pub always: Box<str>,
    pub before: Box<str>,
    pub form: Form,
}

/// Some rows of a column; of `Form::Nothing` there are no values. Nothing stands for what `null` marks.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    pub values: Option<&'a [i64]>,
    pub null: Option<&'a [bool]>,
}

/// A cell of CSV after RFC 4180.
pub fn cell(text: &str) -> Box<str> {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

/// What stands in `rows` rows. None: columns are not as long, or name no text.
pub fn lines(columns: &[Column], cells: &[Cells<'_>], rows: usize) -> Option<String> {
    let fits = |(column, cells): (&Column, &Cells<'_>)| {
        let is_number = !matches!(column.form, Form::Nothing);
        let is_long = cells.values.map_or(!is_number, |values| is_number && values.len() == rows);
        is_long && cells.null.is_none_or(|null| null.len() == rows)
    };
    if columns.len() != cells.len() || !columns.iter().zip(cells).all(fits) {
        return None;
    }
    let mut out = Vec::with_capacity(rows * columns.len() * 8);
    for row in 0..rows {
        for (column, cells) in columns.iter().zip(cells) {
            match *column.always.as_bytes() {
                [] => {}
                [byte] => out.push(byte), // without a call
                ref several => out.extend_from_slice(several),
            }
            if cells.null.is_some_and(|null| null[row]) {
                continue;
            }
            if !column.before.is_empty() {
                out.extend_from_slice(column.before.as_bytes());
            }
            let value = cells.values.map_or(0, |values| values[row]);
            match &column.form {
                Form::Nothing => {}
                Form::Decimal => decimal(value, &mut out),
                Form::Hex => out.extend_from_slice(format!("{value:x}").as_bytes()),
                Form::Hex8 => hex8(value, &mut out),
                Form::Micros => micros(value, &mut out),
                Form::Seconds => out.extend_from_slice(format!("{:.6}", value as f64 / 1e9).as_bytes()),
                Form::Moment => moment(value, &mut out),
                Form::Text(texts) => out.extend_from_slice(texts.get(usize::try_from(value).ok()?)?.as_bytes()),
            }
        }
    }
    String::from_utf8(out).ok()
}

const MOST_DIGITS: usize = 20;
/// 00 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

#[inline]
fn decimal(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(value.unsigned_abs(), 1, out);
}

/// With zeros in front, where it has fewer digits than `least`.
#[inline]
fn unsigned(mut left: u64, least: usize, out: &mut Vec<u8>) {
    // Twice as long as a number, so that as many bytes are copied whatever it is, which takes no call.
    let mut digits = [b'0'; 2 * MOST_DIGITS];
    let mut at = MOST_DIGITS;
    while left >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(left % 100) as usize]);
        left /= 100;
    }
    if left >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[left as usize]);
    } else if left > 0 {
        at -= 1;
        digits[at] = b'0' + left as u8;
    }
    at = at.min(MOST_DIGITS - least);
    let end = out.len() + MOST_DIGITS - at;
    let copied: [u8; MOST_DIGITS] = *digits[at..].first_chunk().unwrap_or(&[0; MOST_DIGITS]);
    out.extend_from_slice(&copied);
    out.truncate(end);
}

#[inline]
fn hex8(value: i64, out: &mut Vec<u8>) {
    out.extend((0..8).rev().map(|at| b"0123456789abcdef"[(value >> (4 * at)) as usize & 15]));
}

#[inline]
fn micros(ns: i64, out: &mut Vec<u8>) {
    let ns = ns.unsigned_abs();
    unsigned(ns / 1000, 1, out);
    out.push(b'.');
    unsigned(ns % 1000, 3, out);
}

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

fn moment(ns: i64, out: &mut Vec<u8>) {
    let (second, rest) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let (year, month, day) = date(second.div_euclid(DAY_S));
    let of_day = second.rem_euclid(DAY_S);
    let parts = [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (of_day / 3600, 2, b':'),
        (of_day / 60 % 60, 2, b':'),
        (of_day % 60, 2, b'.'),
        (rest, 9, b'Z'),
    ];
    for (part, least, behind) in parts {
        unsigned(part.unsigned_abs(), least, out);
        out.push(behind);
    }
}

/// Year, month and day of a day since 1970, in the Gregorian calendar (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`).
fn date(day: i64) -> (i64, i64, i64) {
    let since = day + 719_468; // the first of March of the year 0
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + 400 * era + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::cases;

    fn column(always: &str, before: &str, form: Form) -> Column {
        Column { always: always.into(), before: before.into(), form }
    }

    fn made(form: Form, values: &[i64]) -> String {
        let cells = [Cells { values: Some(values), null: None }];
        lines(&[column("", " ", form)], &cells, values.len()).unwrap()
    }

    proptest! {
        #![proptest_config(cases(200))]

        /// Cells are what the standard library makes of the numbers, and nothing stands where they are null.
        #[test]
        fn cells_are_numbers(rows in prop::collection::vec((any::<i64>(), any::<u32>(), 0usize..2, any::<bool>()), 0..40)) {
            let texts = [cell("a,\"b\""), cell("NFSv3 \u{fc}")];
            let columns = [
                column("<", "=", Form::Decimal),
                column(",", "", Form::Hex8),
                column(",", "", Form::Hex),
                column(",", "", Form::Text(texts.to_vec())),
                column(",", "!", Form::Nothing),
                column(">", "", Form::Nothing),
            ];
            let column = |of: fn(&(i64, u32, usize, bool)) -> i64| rows.iter().map(of).collect::<Vec<_>>();
            let values = [column(|row| row.0), column(|row| row.1.into()), column(|row| row.2 as i64)];
            let null: Vec<bool> = rows.iter().map(|row| row.3).collect();
            let whole = |at: usize| Cells { values: Some(&values[at]), null: None };
            let none = Cells { values: None, null: None };
            let null = Some(&null[..]);
            let cells = [Cells { null, ..whole(0) }, whole(1), whole(1), whole(2), Cells { null, ..none }, none];
            let texts = ["\"a,\"\"b\"\"\"", "NFSv3 \u{fc}"];
            let expected: String = rows.iter().map(|(number, hex, text, is_null)| {
                let number = if *is_null { String::new() } else { format!("={number}") };
                let mark = if *is_null { "" } else { "!" };
                format!("<{number},{hex:08x},{hex:x},{},{mark}>", texts[*text])
            }).collect();
            prop_assert_eq!(lines(&columns, &cells, rows.len()), Some(expected));
        }

        /// Days follow each other as the calendar has them.
        #[test]
        fn days_follow(day in -719_000i64..2_900_000) {
            let (year, month, of_month) = date(day);
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = [31, 28 + i64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            let next = match (of_month == days, month) {
                (false, _) => (year, month, of_month + 1),
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
            };
            prop_assert_eq!(date(day + 1), next);
        }
    }

    /// The ends of what 64 bits hold, and times.
    #[test]
    fn forms() {
        let extremes = [i64::MIN, -1, 0, 9, 10, i64::MAX];
        assert_eq!(made(Form::Decimal, &extremes), " -9223372036854775808 -1 0 9 10 9223372036854775807");
        assert_eq!(made(Form::Micros, &[0, 999, 1000, 1_234_567]), " 0.000 0.999 1.000 1234.567");
        assert_eq!(made(Form::Seconds, &[0, -1_500, 1_234_567_891]), " 0.000000 -0.000002 1.234568");
        let moments = [0, 951_782_400_000_000_001, 1_700_000_000_123_456_789];
        let expected = " 1970-01-01T00:00:00.000000000Z 2000-02-29T00:00:00.000000001Z 2023-11-14T22:13:20.123456789Z";
        assert_eq!(made(Form::Moment, &moments), expected);
    }

    /// A row of no text, columns that do not fit each other, and a form that is none.
    #[test]
    fn refused() {
        let text = [column("", "", Form::Text(vec![cell("")]))];
        let values: &[i64] = &[1];
        let one = Cells { values: Some(values), null: None };
        assert_eq!(lines(&text, &[one], 1), None);
        assert_eq!(lines(&[], &[one], 1), None);
        let number = [column("", "", Form::Decimal)];
        assert_eq!(lines(&number, &[one], 2), None);
        assert_eq!(lines(&number, &[Cells { null: Some(&[]), ..one }], 1), None);
        assert_eq!(lines(&number, &[Cells { values: None, null: None }], 1), None);
        assert!(Form::of("decimal", Some(Vec::new())).is_none() && Form::of("roman", None).is_none());
    }
}
