//! [`Relation`]: which events come before which.

/// The most events of an execution.
pub const MOST: usize = 32;

/// A set of pairs of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation([u32; MOST]);

impl Relation {
    /// No pair.
    pub const EMPTY: Self = Self([0; MOST]);

    /// Adds a pair.
    pub fn add(&mut self, a: usize, b: usize) {
        self.0[a] |= 1 << b;
    }

    /// Whether it has the pair.
    pub fn has(&self, a: usize, b: usize) -> bool {
        self.0[a] >> b & 1 != 0
    }

    /// Adds all pairs of another one.
    pub fn add_all(&mut self, other: &Self) {
        for (mine, its) in self.0.iter_mut().zip(other.0) {
            *mine |= its;
        }
    }

    /// The pairs `(a, c)` with some `b` between: `(a, b)` here and `(b, c)` in the other one.
    pub fn then(&self, other: &Self) -> Self {
        let mut both = Self::EMPTY;
        for (row, &bits) in both.0.iter_mut().zip(&self.0) {
            let mut left = bits;
            while left != 0 {
                *row |= other.0[left.trailing_zeros() as usize];
                left &= left - 1;
            }
        }
        both
    }

    /// Closed under [`then`](Self::then).
    pub fn closure(mut self) -> Self {
        for b in 0..MOST {
            let through = self.0[b];
            if through != 0 {
                for row in &mut self.0 {
                    if *row >> b & 1 != 0 {
                        *row |= through;
                    }
                }
            }
        }
        self
    }

    /// Whether no event comes before itself.
    pub fn is_irreflexive(&self) -> bool {
        (0..MOST).all(|a| !self.has(a, a))
    }

    /// Whether it has no cycle.
    pub fn is_acyclic(self) -> bool {
        self.closure().is_irreflexive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closures_and_cycles() {
        let mut chain = Relation::EMPTY;
        chain.add(3, 1);
        chain.add(1, 2);
        chain.add(0, 3);
        let closed = chain.closure();
        assert!(closed.has(0, 2) && closed.has(3, 2) && !closed.has(2, 0));
        assert!(chain.is_acyclic());
        assert!(chain.then(&chain).has(0, 1) && !chain.then(&chain).has(0, 3));
        chain.add(2, 0);
        assert!(!chain.is_acyclic());
    }
}
