#!/usr/bin/env bash
# jellyfish 2.3.0 (Debian 12) on FASTQ whose last line has no line end: k-mers of whole records are not counted, and the exit
# status is 0. With the line end all are counted. A file of FASTQ may end without one, and zcat of such files joins the
# last line of one with the first of the next, so it matters who adds it.
#
# Prints what it saw; fails if a later package behaves in another way.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=2.3.0-15+b3
apt-get download "jellyfish=$version" "libjellyfish-2.0-2=$version" >apt.log 2>&1 || { cat apt.log; exit 1; }
for package in *.deb; do dpkg -x "$package" root; done
LD_LIBRARY_PATH=$(dirname "$(find "$folder/root" -name 'libjellyfish-2.0.so.2' | head -n 1)")
export LD_LIBRARY_PATH

# Two reads of 30 bases, which have no 21-mer in common.
read_1=ACGTTGCAAGGCTTAACCGGATATCGCGTA
read_2=TTGACCATGCCGAATTCAGGTCTAACGGTC
qualities=IIIIIIIIIIIIIIIIIIIIIIIIIIIIII
printf '@a\n%s\n+\n%s\n@b\n%s\n+\n%s\n' $read_1 $qualities $read_2 $qualities >with.fq
head -c -1 with.fq >without.fq

count() {
    root/usr/bin/jellyfish count -m 21 -s 1k -o "$1.jf" "$1"
    root/usr/bin/jellyfish dump -c "$1.jf" | wc -l
}
with=$(count with.fq)
without=$(count without.fq)
echo "jellyfish $version: $with of 20 different 21-mers with the last line end, $without without it, exit status 0 both times"
[ "$with" -eq 20 ] && [ "$without" -lt 20 ]
