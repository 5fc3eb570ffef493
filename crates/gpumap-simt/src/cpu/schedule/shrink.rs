//! The few turns of a failing run that matter.

use super::script::{Script, Turn};

/// What is left of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The turns that are left: the run still fails.
    pub script: Script,
    /// How many runs it took.
    pub runs: u32,
}

impl Script {
    /// Leaves out turns as long as the run that is left fails, in at most `runs` runs: delta
    /// debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002),
    /// from the back, since most of what comes after the failure does not matter. It is switches between
    /// lanes that it counts, as the simplification of traces by Jalbert and Sen does ("A trace
    /// simplification technique for effective debugging of concurrent programs", FSE 2010): a turn
    /// says where its lane stops, so what is left out is made up for in the lane's next turn.
    ///
    /// `fails` is called with scripts that are shorter and shorter; it runs the case under
    /// [`Schedule::Replay`](super::Schedule::Replay). If not even the whole script fails, nothing is
    /// left out.
    ///
    /// ```
    /// use gpumap_simt::executor::Script;
    ///
    /// let long: Script = "0.0 0.1@3 0.2 0.1@4 0.3 0.1@9 0.2@2".parse()?;
    /// let shrunk = long.shrink(100, |script| script.turns().iter().any(|turn| turn.thread == 3));
    /// assert_eq!(shrunk.script.to_string(), "0.3");
    /// # Ok::<(), gpumap_simt::executor::ParseScriptError>(())
    /// ```
    #[must_use]
    pub fn shrink(&self, runs: u32, mut fails: impl FnMut(&Self) -> bool) -> Shrunk {
        let mut turns = self.turns().to_vec();
        let mut left = runs;
        let mut part = turns.len();
        while part > 0 && left > 0 {
            let mut end = turns.len();
            let mut shorter = false;
            while end > 0 && left > 0 {
                let start = end.saturating_sub(part);
                let without = without(&turns, start, end);
                left -= 1;
                if without.len() < turns.len() && fails(&without.clone().into()) {
                    // Neighbours may have become one turn.
                    turns = without;
                    shorter = true;
                    end = start.min(turns.len());
                } else {
                    end = start;
                }
            }
            // Parts of this size once more if some could go: others may have been waiting for that.
            if !shorter || part > turns.len() {
                part = part.min(turns.len()) / 2;
            }
        }
        Shrunk {
            script: turns.into(),
            runs: runs - left,
        }
    }
}

/// The turns without those from `start` to `end`; of neighbours of one lane the later one says how far
/// it goes.
fn without(turns: &[Turn], start: usize, end: usize) -> Vec<Turn> {
    let mut rest: Vec<Turn> = Vec::with_capacity(turns.len());
    for turn in turns[..start].iter().chain(&turns[end..]) {
        match rest.last_mut() {
            Some(last) if last.lane() == turn.lane() => *last = *turn,
            _ => rest.push(*turn),
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Script {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_needed_stays_in_order() {
        let needed = script("0.1 0.2@4 1/0.1");
        let mut long = Vec::new();
        for (i, &turn) in needed.turns().iter().enumerate() {
            let noise = |n: u32| Turn {
                thread: 10 + n % 5,
                points: n % 3,
                ..turn
            };
            long.extend((0..40 + i as u32).map(noise));
            long.push(turn);
        }
        let fails = |script: &Script| {
            let mut wanted = needed.turns().iter().peekable();
            for turn in script.turns() {
                wanted.next_if(|&next| next == turn);
            }
            wanted.peek().is_none()
        };
        let shrunk = Script::from(long).shrink(10_000, fails);
        assert_eq!(shrunk.script, needed);
        assert!(shrunk.runs < 400, "{} runs", shrunk.runs);
    }

    #[test]
    fn the_number_of_runs_is_kept_to() {
        let long = Script::from(vec![script("0.0").turns()[0]; 1000]);
        let mut asked = 0;
        let shrunk = long.shrink(17, |_| {
            asked += 1;
            false
        });
        assert_eq!((shrunk.script, shrunk.runs), (long, asked));
        assert!(asked <= 17);
    }

    #[test]
    fn words_that_are_no_turns_are_refused() {
        for text in ["0", "0.", "a.b", "1/2", "0.1@", "-1.0", "0.0@5000000000"] {
            let error = text.parse::<Script>().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
