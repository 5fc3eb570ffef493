#!/usr/bin/env bash
# zlib-rs 0.6.8 (through flate2 1.1.10): level 1 does not only look for fewer repetitions than level 2, it packs with the
# codes that Deflate has fixed, 8 bits for a letter, where zlib at its level 1 makes codes from the data. Text of few
# letters, as sequences, qualities and digits are, becomes half as large again as at level 2; zlib's two levels
# differ by some percent. So the level that is meant to be the fastest way to write FASTQ writes, and has read, half as much again.
#
# Prints what it saw; fails if these versions behave in another way.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# Reads of random bases with qualities of four kinds.
python3 - <<'PYTHON'
import random
random.seed(7)
with open("reads.fq", "w") as out:
    for read in range(10_000):
        bases = "".join(random.choices("ACGT", k=150))
        qualities = "".join(random.choices("F:,#", weights=[11, 3, 1, 1], k=150))
        out.write(f"@read/{read}\n{bases}\n+\n{qualities}\n")
PYTHON

mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "level-1"
version = "0.0.0"
edition = "2024"

[dependencies]
flate2 = { version = "=1.1.10", default-features = false, features = ["zlib-rs"] }
zlib-rs = "=0.6.8"
TOML
cat >src/main.rs <<'RUST'
use std::io::Write;

fn main() {
    let text = std::fs::read("reads.fq").unwrap();
    for level in 1..=2 {
        let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(level));
        packer.write_all(&text).unwrap();
        let packed = packer.finish().unwrap();
        // The kind of the first block: 1 is that of fixed codes.
        println!("{} {}", packed.len(), packed[0] >> 1 & 3);
    }
}
RUST
cargo build --quiet --release
ours=$(target/release/level-1 | tr '\n' ' ')
theirs=$(python3 - <<'PYTHON'
import zlib
text = open("reads.fq", "rb").read()
for level in (1, 2):
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    packed = packer.compress(text) + packer.flush()
    print(len(packed), packed[0] >> 1 & 3, end=" ")
PYTHON
)
version=$(python3 -c 'import zlib; print(zlib.ZLIB_RUNTIME_VERSION)')
echo "bytes, and kind of the first block, at level 1 and level 2"
echo "zlib-rs 0.6.8: $ours"
echo "zlib $version: $theirs"
read -r first kind second second_kind <<<"$ours"
read -r zlib_first zlib_kind zlib_second _ <<<"$theirs"
[ "$kind" -eq 1 ] && [ "$second_kind" -eq 2 ] && [ "$zlib_kind" -eq 2 ]
[ $((first * 10)) -gt $((second * 14)) ]
[ $((zlib_first * 10)) -lt $((zlib_second * 11)) ]
