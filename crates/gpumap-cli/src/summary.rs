//! What a run says at its end: device, pairs, seconds, pairs per second.

use std::fmt;

use serde_json::{Value, json};

/// The outcome of one run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The command.
    pub job: &'static str,
    /// What it ran on.
    pub device: String,
    /// Numbers that only this command has, with their names.
    pub facts: Vec<(&'static str, u64)>,
    /// Pairs that went into the map, repetitions included; for k-mers a pair is (k-mer, 1).
    pub pairs: u64,
    /// Keys in the map at the end.
    pub distinct: u64,
    /// Whether all these pairs were read in the time below: without that they have no rate.
    pub has_rate: bool,
    /// From opening the input to closing the output.
    pub seconds: f64,
    /// The part of it that was spent in calls to the map, copies included, where there is one.
    pub map_seconds: Option<f64>,
    /// The seconds of each step, which run beside each other.
    pub steps: Vec<(&'static str, f64)>,
    /// The seconds of each part of the step that writes, where they are known.
    pub writing: Vec<(&'static str, f64)>,
    /// What may be wrong though the run succeeded, each on a line.
    pub warnings: Vec<String>,
}

impl Summary {
    /// Pairs in a second of the whole run.
    pub fn pairs_per_second(&self) -> f64 {
        // A clock that has not moved is no reason to print `inf`, which JSON does not have.
        self.pairs as f64 / self.seconds.max(1e-9)
    }

    /// The same as one JSON object on one line.
    pub fn to_json(&self) -> String {
        self.to_object().to_string()
    }

    /// The same as an object.
    pub fn to_object(&self) -> Value {
        let mut object = json!({
            "job": self.job,
            "device": self.device,
            "pairs": self.pairs,
            "distinct": self.distinct,
            "seconds": self.seconds,
        });
        if self.has_rate {
            object["pairs_per_second"] = self.pairs_per_second().into();
        }
        if let Some(seconds) = self.map_seconds {
            object["map_seconds"] = seconds.into();
        }
        for &(name, number) in &self.facts {
            object[name.replace(' ', "_")] = number.into();
        }
        for &(step, seconds) in &self.steps {
            object["steps"][step] = seconds.into();
        }
        for &(part, seconds) in &self.writing {
            object["writing"][part] = seconds.into();
        }
        if !self.warnings.is_empty() {
            object["warning"] = self.warnings.join("; ").into();
        }
        object
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<11} {}", "device", self.device)?;
        for &(name, number) in &self.facts {
            writeln!(f, "{name:<11} {}", grouped(number))?;
        }
        writeln!(
            f,
            "{:<11} {}, {} distinct",
            "pairs",
            grouped(self.pairs),
            grouped(self.distinct)
        )?;
        write!(f, "{:<11} {:.3}", "seconds", self.seconds)?;
        if let Some(seconds) = self.map_seconds {
            write!(f, ", of them {seconds:.3} in the map")?;
        }
        if !self.steps.is_empty() {
            let steps = self.steps.iter();
            let steps = steps.map(|(step, seconds)| format!("{step} {seconds:.3}"));
            let steps: Vec<String> = steps.collect();
            write!(f, "\n{:<11} {}", "steps", steps.join(", "))?;
        }
        if self.has_rate {
            let rate = grouped(self.pairs_per_second() as u64);
            write!(f, "\n{:<11} {rate}", "pairs/s")?;
        }
        Ok(())
    }
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn json_is_one_line_of_numbers() {
        let summary = Summary {
            job: "load",
            device: "a \"device\"".to_owned(),
            facts: vec![("looked up", 3)],
            pairs: 10,
            distinct: 9,
            has_rate: true,
            seconds: 0.0,
            map_seconds: None,
            steps: vec![("read", 0.5), ("write", 1.5)],
            writing: vec![("sort", 0.25)],
            warnings: vec!["odd".to_owned(), "even".to_owned()],
        };
        let text = summary.to_json();
        assert!(!text.contains('\n'));
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["pairs"], 10);
        assert_eq!(back["looked_up"], 3);
        assert_eq!(back["steps"]["write"], 1.5);
        assert_eq!(back["writing"]["sort"], 0.25);
        assert_eq!(back["warning"], "odd; even");
        assert!(back["pairs_per_second"].is_number());
        assert!(back["map_seconds"].is_null());
        let without = Summary {
            has_rate: false,
            ..summary
        };
        assert!(!without.to_json().contains("pairs_per_second"));
        assert!(!without.to_string().contains("pairs/s"));
    }
}
