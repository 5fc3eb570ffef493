//! Maps that the host lends to kernels of another crate, `gpumap-map-test-kernels`: every verb
//! against an oracle, by single lanes and by tiles, on every back end and slot encoding.

mod churn;
mod errors;
mod multi;
mod room;
mod rows;
mod support;
mod verbs;
mod wide;
