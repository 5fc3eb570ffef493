#!/usr/bin/env bash
# Makes the golden files of this folder with jellyfish; README.md says what they are.
# Needs jellyfish 2, awk, gzip, coreutils. Run it anywhere: it finds its own folder.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")"
lambda=../../../../data/lambda_virus.fa.gz
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Reads from lambda, from a generator of our own so that every awk makes the same ones: lengths of
# 15 to 134, both strands, one base in 50 wrong, one in 100 an N, some reads in lower case, and
# qualities that begin with the signs that begin records.
zcat "$lambda" | awk '
    function roll(n) { state = (state * 69069 + 12345) % 4294967296; return int(state / 65536) % n }
    /^>/ { next }
    { genome = genome $0 }
    END {
        state = 20
        split("A C G T", letters, " ")
        complement["A"] = "T"; complement["C"] = "G"; complement["G"] = "C"; complement["T"] = "A"
        for (read = 1; read <= 600; read++) {
            n = 15 + roll(120)
            # Half of the reads are from one thousand bases, so that counts differ.
            start = roll(2) ? 1 + roll(1000) : 1 + roll(length(genome) - n)
            window = substr(genome, start, n)
            is_reverse = roll(2); text = ""; quality = substr("@+>", 1 + roll(3), 1)
            for (i = 1; i <= n; i++) {
                base = is_reverse ? complement[substr(window, n + 1 - i, 1)] : substr(window, i, 1)
                if (roll(50) == 0) base = letters[1 + roll(4)]
                if (roll(100) == 0) base = "N"
                text = text base
                if (i > 1) quality = quality "I"
            }
            if (roll(8) == 0) text = tolower(text)
            print "@read" read "\n" text "\n+\n" quality
        }
    }' | gzip -9n > reads.fq.gz

count() { # input k [-C]: every k-mer with its count, as sorted text
    zcat "$1" | jellyfish count -m "$2" ${3:-} -s 1M -t 1 -o "$scratch/counts" /dev/stdin
    jellyfish dump -c -t "$scratch/counts" | sort
}

echo "# input k strands k-mers sha256" > digests.txt
for input in "$lambda" reads.fq.gz; do
    for k in 1 2 15 21 31 32 33 41 63 64; do
        for canonical in "" -C; do
            count "$input" "$k" $canonical > "$scratch/sorted"
            echo "$(basename "$input") $k ${canonical:-as-read}" \
                "$(wc -l < "$scratch/sorted") $(sha256sum < "$scratch/sorted" | cut -d' ' -f1)"
        done
    done
done >> digests.txt

# About a thousand of the lines themselves, to see where a difference is.
count "$lambda" 21 | awk 'NR % 48 == 1' > lambda_21_sample.tsv
count reads.fq.gz 21 -C | awk 'NR % 15 == 1' > reads_21_canonical_sample.tsv

# How many 8-mers occur once, twice, ...
count "$lambda" 8 > /dev/null
jellyfish histo "$scratch/counts" > lambda_8_histogram.txt
