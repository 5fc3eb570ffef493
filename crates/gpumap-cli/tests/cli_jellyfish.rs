//! The whole comparison with jellyfish itself, on lambda and on the reads of Debian's
//! `bowtie2-examples`: `cargo test -p gpumap-cli --test cli_jellyfish -- --ignored`.

mod common;

use common::{Scene, sorted};
use std::process::Command;

const EXAMPLES: &str = "/usr/share/doc/bowtie2/examples";

#[test]
#[ignore = "needs jellyfish, zcat and the Debian package bowtie2-examples"]
fn every_kmer_and_every_count() {
    let scene = Scene::new();
    for input in ["reference/lambda_virus.fa.gz", "reads/reads_1.fq.gz"] {
        let input = format!("{EXAMPLES}/{input}");
        for k in ["1", "2", "15", "21", "31", "32", "33", "41", "63"] {
            for strands in [&[][..], &["-C"]] {
                let expected = jellyfish(&scene, &input, k, strands);
                let arguments = [&["count-kmers", &input, "-k", k, "--sorted"], strands].concat();
                let counts = scene.succeed(&arguments);
                assert!(counts == expected, "{input}, k = {k}, {strands:?}");
                println!(
                    "{input}, k = {k} {strands:?}: {} equal",
                    counts.lines().count()
                );
            }
        }
    }
}

fn jellyfish(scene: &Scene, input: &str, k: &str, strands: &[&str]) -> String {
    let script = format!(
        "set -o pipefail; zcat '{input}' |
         jellyfish count -m {k} {} -s 4M -o counts.jf /dev/stdin &&
         jellyfish dump -c -t counts.jf",
        strands.concat()
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(scene.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    sorted(&String::from_utf8(output.stdout).unwrap())
}
