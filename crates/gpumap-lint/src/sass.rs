//! What an assembler has made of PTX, as far as it is about the order of accesses and their width: instructions
//! that access memory, and barriers. `nvdisasm` names them. It needs no GPU.
//!
//! Not the whole text is disassembled, which takes a third as long as to assemble it: first one instruction of each
//! opcode, which tells the opcodes of these, then those alone. For 281 kernels on sm_120, and on sm_70 by the
//! disassembler of CUDA 12.4, their counts are those of the whole text (2026-11-28).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::capture;
use crate::ptx::torn::{Load, Pairs};
use crate::wheel::Wheel;

const NVDISASM: Wheel = Wheel {
    packages: &["nvidia-cuda-nvdisasm==13.5.37"],
    folder: "nvdisasm-venv",
    program: "nvidia/cu13/bin/nvdisasm",
};

/// Bytes of an instruction, from sm_70 on.
const INSTRUCTION: usize = 16;

/// The instructions that are looked at.
const MEMORY: [&str; 10] = [
    "LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "MEMBAR", "CCTL",
];

/// What a kernel executes, of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Barriers of memory, for other blocks.
    pub barriers: u32,
    /// Invalidations of the L1, with which an acquire begins to see what others have written.
    pub invalidations: u32,
    /// Strong loads of any width.
    pub loads: u32,
    /// Strong stores of 16 bytes.
    pub stores_128: u32,
    /// Exchanges of 16 bytes.
    pub exchanges_128: u32,
    /// Compare-and-swaps of 4, 8 and 16 bytes.
    pub cas: [u32; 3],
    /// Two strong loads of one unit of 16 bytes.
    pub pairs: Pairs,
}

/// The disassembler.
pub struct Disassembler {
    path: PathBuf,
}

impl Disassembler {
    /// It is installed into this folder at its first use.
    pub fn find(tools: &Path) -> Result<Self> {
        Ok(Self {
            path: NVDISASM.install(tools)?,
        })
    }

    /// What each kernel of the file at `cubin` executes on `gpu`.
    pub fn executed(&self, cubin: &Path, gpu: &str) -> Result<BTreeMap<String, Executed>> {
        let elf = fs::read(cubin).with_context(|| cubin.display().to_string())?;
        let sections = sections(&elf).with_context(|| cubin.display().to_string())?;
        let mut samples = BTreeMap::new();
        for (_, code) in &sections {
            for instruction in code.chunks_exact(INSTRUCTION) {
                samples.entry(opcode(instruction)).or_insert(instruction);
            }
        }
        let names = self.disassemble(cubin, gpu, samples.values().copied())?;
        let is_memory = |text: &String| MEMORY.contains(&parts(text).0[0]);
        let opcodes = samples.keys().zip(&names);
        let opcodes = opcodes.filter(|(_, text)| is_memory(text));
        let opcodes: BTreeSet<u16> = opcodes.map(|(&opcode, _)| opcode).collect();

        let mut chosen = Vec::new();
        for (kernel, code) in &sections {
            for (place, instruction) in code.chunks_exact(INSTRUCTION).enumerate() {
                if opcodes.contains(&opcode(instruction)) {
                    chosen.push((*kernel, place, instruction));
                }
            }
        }
        let code = chosen.iter().map(|&(_, _, instruction)| instruction);
        let texts = self.disassemble(cubin, gpu, code)?;
        let mut kernels: BTreeMap<String, Vec<(usize, &str)>> = sections
            .iter()
            .map(|&(kernel, _)| (kernel.to_owned(), Vec::new()))
            .collect();
        for ((kernel, place, _), text) in chosen.iter().zip(&texts) {
            let lines = kernels.get_mut(*kernel).context("a kernel without code")?;
            lines.push((*place, text));
        }
        kernels
            .into_iter()
            .map(|(kernel, lines)| {
                let executed = Executed::of(&lines).with_context(|| format!("in {kernel}"))?;
                Ok((kernel, executed))
            })
            .collect()
    }

    /// The text of each of these instructions.
    fn disassemble<'a>(
        &self,
        cubin: &Path,
        gpu: &str,
        code: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<Vec<String>> {
        let number = code.len();
        if number == 0 {
            return Ok(Vec::new());
        }
        let file = cubin.with_extension("code");
        fs::write(&file, code.collect::<Vec<_>>().concat())?;
        // The disassembler of CUDA 13 does not know Volta, whose instructions are those of Turing.
        let name = match gpu {
            "sm_70" => "SM75".to_owned(),
            _ => gpu.replace("sm_", "SM"),
        };
        let mut command = Command::new(&self.path);
        // What is cut out of kernels jumps to nowhere.
        command
            .args(["--no-dataflow", "--binary", &name])
            .arg(&file);
        let output = capture(&mut command)?;
        let texts = instructions(&String::from_utf8_lossy(&output.stdout));
        if texts.len() != number {
            bail!("nvdisasm made {} of {number} instructions", texts.len());
        }
        Ok(texts)
    }
}

/// The bits of an instruction that say what it does.
fn opcode(instruction: &[u8]) -> u16 {
    u16::from_le_bytes([instruction[0], instruction[1]]) & 0xfff
}

/// The instructions of a disassembly, without addresses and predicates.
fn instructions(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let (_, code) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
        let code = code.trim_start();
        let code = match code.starts_with('@') {
            true => code.split_once(char::is_whitespace)?.1.trim_start(),
            false => code,
        };
        Some(code.trim_end_matches([' ', ';']).to_owned())
    });
    lines.filter(|line| !line.is_empty()).collect()
}

/// The parts of an instruction's name, and its operands.
fn parts(text: &str) -> (Vec<&str>, &str) {
    let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (name.split('.').collect(), operands)
}

impl Executed {
    /// Of a kernel's instructions, each with its number in the kernel.
    fn of(lines: &[(usize, &str)]) -> Result<Self> {
        let mut executed = Executed::default();
        let mut loads = Vec::new();
        for &(place, text) in lines {
            let (parts, operands) = parts(text);
            let has = |name| parts.contains(&name);
            let for_others = has("GPU") || has("SYS") || has("VC");
            let is_strong = has("STRONG") && for_others;
            match parts[0] {
                "MEMBAR" if for_others => executed.barriers += 1,
                "CCTL" if has("IVALL") => executed.invalidations += 1,
                "LD" | "LDG" if is_strong => {
                    executed.loads += 1;
                    if !has("128") {
                        let load = load(place, operands, if has("64") { 8 } else { 4 });
                        loads.push(load.with_context(|| format!("no address: {text}"))?);
                    }
                }
                "ST" | "STG" if is_strong && has("128") => executed.stores_128 += 1,
                "ATOM" | "ATOMG" if is_strong && has("EXCH") && has("128") => {
                    executed.exchanges_128 += 1;
                }
                "ATOM" | "ATOMG" if is_strong && (has("CAS") || has("CAST")) => {
                    let width = match (has("128"), has("64")) {
                        (true, _) => 2,
                        (_, true) => 1,
                        _ => 0,
                    };
                    executed.cas[width] += 1;
                }
                _ => {}
            }
        }
        executed.pairs = Pairs::of(loads);
        Ok(executed)
    }
}

/// A load of this address, as in `R4, desc[UR8][R34.64+0x8]`.
fn load(place: usize, operands: &str, bytes: i64) -> Option<Load> {
    let address = operands.rsplit_once('[')?.1.split_once(']')?.0;
    let number = |text: &str| match text.strip_prefix('-') {
        Some(text) => Some(-i64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?),
        None => i64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
    };
    let last = address.rsplit_once('+');
    let last = last.and_then(|(base, offset)| Some((base, number(offset)?)));
    let (base, offset) = last.unwrap_or((address, 0));
    Some(Load {
        place,
        base: base.to_owned(),
        offset,
        bytes,
    })
}

/// The code of each kernel of an ELF file, by its name.
fn sections(elf: &[u8]) -> Result<Vec<(&str, &[u8])>> {
    let number = |at: usize, bytes: usize| -> Result<usize> {
        let field = elf
            .get(at..at + bytes)
            .context("an ELF file that is cut off")?;
        let digits = field.iter().rev();
        Ok(digits.fold(0, |number, &digit| number << 8 | usize::from(digit)))
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        bail!("not an ELF file of 64 bits");
    }
    let (table, size) = (number(0x28, 8)?, number(0x3a, 2)?);
    let header = |section: usize| -> Result<(usize, &[u8])> {
        let at = table + section * size;
        let (offset, bytes) = (number(at + 0x18, 8)?, number(at + 0x20, 8)?);
        // Sections of no bits in the file are not cut out of it.
        let content = offset
            .checked_add(bytes)
            .and_then(|end| elf.get(offset..end));
        Ok((number(at, 4)?, content.unwrap_or_default()))
    };
    let (_, names) = header(number(0x3e, 2)?)?;
    let mut kernels = Vec::new();
    for section in 0..number(0x3c, 2)? {
        let (name, code) = header(section)?;
        let name = names.get(name..).context("a section without a name")?;
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        if let Some(kernel) = str::from_utf8(&name[..end])?.strip_prefix(".text.") {
            kernels.push((kernel, code));
        }
    }
    Ok(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `nvdisasm` of 13.5 writes them, of sm_70, sm_90 and sm_120.
    const LINES: &str = r#"
	.headerflags	@"EF_CUDA_64BIT_ADDRESS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        /*0000*/                   MEMBAR.ALL.GPU ;
        /*0010*/                   MEMBAR.SC.SYS ;
        /*0020*/                   MEMBAR.ALL.CTA ;
        /*0030*/                   CCTL.IVALL ;
        /*0040*/              @!P0 LDG.E.STRONG.GPU R5, desc[UR4][R4.64] ;
        /*0050*/                   LDG.E.STRONG.GPU R6, desc[UR4][R4.64+0x8] ;
        /*0060*/                   LDG.E.128.STRONG.GPU R4, [R34] ;
        /*0070*/                   LDG.E.64.STRONG.GPU R4, [R2+-0x10] ;
        /*0080*/                   LDG.E.STRONG.SM R9, desc[UR4][R8.64] ;
        /*0090*/                   STG.E.128.STRONG.GPU desc[UR4][R6.64+0x18], R4 ;
        /*00a0*/                   STG.E.128 desc[UR4][R6.64+0x18], R4 ;
        /*00b0*/                   ATOMG.E.CAS.128.STRONG.GPU PT, R4, [R2], R4, R8 ;
        /*00c0*/                   ATOM.E.CAS.STRONG.GPU PT, R17, [R4+0x10], R16, R17 ;
        /*00d0*/                   ATOMG.E.EXCH.128.STRONG.GPU PT, R12, desc[UR4][R4.64+0x10], R12 ;
        /*00e0*/                   ATOM.E.ADD.STRONG.SM PT, R2, [R4], R2 ;
"#;

    #[test]
    fn lines_of_the_disassembler_are_counted() {
        let texts = instructions(LINES);
        assert_eq!(texts.len(), 15);
        let lines: Vec<_> = texts.iter().map(String::as_str).enumerate().collect();
        let executed = Executed::of(&lines).unwrap();
        let pairs = executed.pairs.clone();
        assert_eq!(pairs.beyond(&Pairs::default()), 1, "{pairs:?}");
        assert_eq!(
            executed,
            Executed {
                barriers: 2,
                invalidations: 1,
                loads: 4,
                stores_128: 1,
                exchanges_128: 1,
                cas: [1, 0, 1],
                pairs,
            }
        );
        assert!(Executed::of(&[(0, "LDG.E.STRONG.GPU R5, R4")]).is_err());
    }

    #[test]
    fn files_that_are_no_machine_code_are_errors() {
        for bytes in [&b""[..], b"\x7fELF\x01\x01", b"\x7fELF\x02\x01\x01"] {
            assert!(sections(bytes).is_err());
        }
    }
}
