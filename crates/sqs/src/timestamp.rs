//! Moments as signatures write them, `YYYYMMDDTHHMMSSZ`: whole seconds of UTC.

use std::fmt;

/// A moment, in seconds since the epoch, of the years 0 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(i64);

const SECONDS_OF_DAY: i64 = 86_400;

impl Timestamp {
    /// Reads a date; one that is in no calendar is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 16 {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = &bytes[from..to];
            let all = digits.iter().all(u8::is_ascii_digit);
            all.then(|| {
                digits
                    .iter()
                    .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
            })
        };
        let day = day_number(number(0, 4)?, number(4, 6)?, number(6, 8)?);
        let time = (number(9, 11)? * 60 + number(11, 13)?) * 60 + number(13, 15)?;
        let moment = Self(day * SECONDS_OF_DAY + time);
        // The 30th of February comes back as another day, and a letter amiss as the right one.
        (moment.to_string() == text).then_some(moment)
    }

    /// The moment of this many milliseconds since the epoch.
    pub(crate) fn from_ms(ms: u64) -> Self {
        Self(i64::try_from(ms / 1000).unwrap_or(i64::MAX))
    }

    /// The moment this many seconds later.
    pub(crate) fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Milliseconds since the epoch.
    pub(crate) fn ms(self) -> i128 {
        i128::from(self.0) * 1000
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0.div_euclid(SECONDS_OF_DAY));
        let time = self.0.rem_euclid(SECONDS_OF_DAY);
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        write!(
            f,
            "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"
        )
    }
}

/// Days since the epoch of a date in the Gregorian calendar (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms"): years begin in March, so that the leap day is the last one.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of this many days since the epoch: the inverse.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Timestamp;

    #[test]
    fn reads_dates_of_the_calendar_alone() {
        let seconds = |text| Timestamp::parse(text).map(|moment| moment.0);
        assert_eq!(seconds("19700101T000000Z"), Some(0));
        assert_eq!(seconds("20150830T123600Z"), Some(1_440_938_160));
        assert_eq!(seconds("20240229T235959Z"), Some(1_709_251_199));
        for text in [
            "20230229T000000Z",
            "20231301T000000Z",
            "20230001T000000Z",
            "20230100T000000Z",
            "20230101T240000Z",
            "20230101T006000Z",
            "20230101T000060Z",
            "20230101t000000Z",
            "20230101T000000z",
            "20230101T000000",
            "20230101T0000000Z",
            "+0230101T000000Z",
            "",
            "2023010éT00000Z",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn reads_what_it_shows(seconds in 0..253_402_300_800_i64) {
            let moment = Timestamp(seconds);
            prop_assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }
    }
}
