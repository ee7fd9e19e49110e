//! Prices and discounts, as written in cb.yaml and as published by the leader.
//!
//! Owns the data and its text form. Never computes a cost: `cacct` does. Money is counted in
//! millionths of the currency, so that sums are exact.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Millionths in one of the currency.
pub const MICRO: u64 = 1_000_000;
/// 100 percent in thousandths of a percent.
pub const WHOLE_DISCOUNT: u32 = 100_000;

/// Section `charge`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Charge {
    /// The word that is printed after amounts.
    pub currency: String,
    /// The zone of the discounts' windows, by its name in the tz database.
    pub timezone: String,
    /// The first matching price applies.
    pub prices: Vec<Price>,
    /// The largest discount that applies at a time counts.
    pub discounts: Vec<Discount>,
}

/// The names in a list, or all names except these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameList {
    pub all_but: bool,
    pub names: BTreeSet<String>,
}

impl NameList {
    pub fn all() -> NameList {
        NameList {
            all_but: true,
            names: BTreeSet::new(),
        }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.all_but != self.names.contains(name)
    }
}

impl fmt::Display for NameList {
    /// In the form of sets in cb.yaml: `a b`, `all ~a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.all_but { "~" } else { "" };
        let all = self.all_but.then(|| "all".to_owned());
        let names = self.names.iter().map(|name| format!("{sign}{name}"));
        let words: Vec<String> = all.into_iter().chain(names).collect();
        f.write_str(&words.join(" "))
    }
}

/// Prices per hour of these applications in these queues on these hosts, in millionths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    pub queues: NameList,
    pub hosts: NameList,
    /// A leader of an earlier version publishes none.
    #[serde(default = "NameList::all")]
    pub apps: NameList,
    pub slot_hour: u64,
    pub mem_gb_hour: u64,
    pub gpu_hour: u64,
}

/// A discount for some users or for some times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Discount {
    /// In the form of sets of users in cb.yaml.
    pub users: String,
    pub queues: NameList,
    /// As written in cb.yaml; empty: always.
    pub window: String,
    /// Thousandths of a percent.
    pub percent: u32,
}

impl Charge {
    /// Name and value of every setting, for display.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut out = vec![
            ("currency".to_owned(), self.currency.clone()),
            ("timezone".to_owned(), self.timezone.clone()),
        ];
        let prices = (1..).zip(&self.prices);
        out.extend(prices.map(|(n, p)| (format!("prices.{n}"), p.to_string())));
        let discounts = (1..).zip(&self.discounts);
        out.extend(discounts.map(|(n, d)| (format!("discounts.{n}"), d.to_string())));
        out
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queues: {}, hosts: {}", self.queues, self.hosts)?;
        if self.apps != NameList::all() {
            write!(f, ", apps: {}", self.apps)?;
        }
        for (key, micro) in [
            ("slot_hour", self.slot_hour),
            ("mem_gb_hour", self.mem_gb_hour),
            ("gpu_hour", self.gpu_hour),
        ] {
            if micro > 0 {
                write!(f, ", {key}: {}", Money(micro.into()))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Discount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "users: {}, queues: {}", self.users, self.queues)?;
        if !self.window.is_empty() {
            write!(f, ", window: {}", self.window)?;
        }
        let percent = u128::from(self.percent) * 1000;
        write!(f, ", percent: {}", Money(percent))
    }
}

/// An exact amount in millionths, without trailing zeros: `0.05`, `12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money(pub u128);

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = u128::from(MICRO);
        let text = format!("{}.{:06}", self.0 / one, self.0 % one);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_printed_exactly() {
        for (micro, text) in [
            (0, "0"),
            (1, "0.000001"),
            (50_000, "0.05"),
            (12_000_000, "12"),
            (100_000_000, "100"),
            (1_234_567_890, "1234.56789"),
        ] {
            assert_eq!(Money(micro).to_string(), text);
        }
    }

    #[test]
    fn settings_are_shown_as_they_are_written() {
        let list = |all_but, names: &[&str]| NameList {
            all_but,
            names: names.iter().map(|n| (*n).to_owned()).collect(),
        };
        let charge = Charge {
            currency: "EUR".into(),
            timezone: "UTC".into(),
            prices: vec![Price {
                queues: list(false, &["gpu", "big"]),
                hosts: list(true, &["h1"]),
                apps: list(false, &["cfd"]),
                slot_hour: 20_000,
                gpu_hour: 1_500_000,
                ..Price::default()
            }],
            discounts: vec![Discount {
                users: "g1 ~u2".into(),
                queues: NameList::all(),
                window: "20:00-8:00".into(),
                percent: 12_500,
            }],
        };
        let shown: Vec<String> = charge
            .settings()
            .into_iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        assert_eq!(
            shown,
            [
                "currency = EUR",
                "timezone = UTC",
                "prices.1 = queues: big gpu, hosts: all ~h1, apps: cfd, slot_hour: 0.02, gpu_hour: 1.5",
                "discounts.1 = users: g1 ~u2, queues: all, window: 20:00-8:00, percent: 12.5",
            ]
        );
        let stored = serde_json::to_string(&charge).unwrap();
        assert_eq!(serde_json::from_str::<Charge>(&stored).unwrap(), charge);
        let earlier = stored.replace(r#""apps":{"all_but":false,"names":["cfd"]},"#, "");
        let earlier = serde_json::from_str::<Charge>(&earlier).unwrap();
        assert_eq!(earlier.prices[0].apps, NameList::all());
        assert!(charge.prices[0].queues.contains("gpu") && !charge.prices[0].hosts.contains("h1"));
    }
}
