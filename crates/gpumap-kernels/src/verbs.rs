//! What each verb does with one key and one slab.
//!
//! | module | verbs |
//! |---|---|
//! | [`store`] | insert, merge, get or insert: a pair whose key is absent is stored |
//! | [`assign`] | assign, merge of present keys: values change, and nothing is stored |
//! | [`look_up`] | get |
//! | [`remove`] | remove, and undoing a batch that was stored |
//! | [`mixed`] | what each key of a batch says |
//! | [`ids`] | upsert and remove of maps whose values are ids |

pub mod assign;
pub mod ids;
pub mod look_up;
pub mod mixed;
pub mod remove;
pub mod store;
