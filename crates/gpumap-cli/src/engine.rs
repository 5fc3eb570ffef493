//! Where the program meets the `gpumap` library: here the device, in [`crate::table`] the map.

use gpumap::sharded::{Ranks, open_devices};
use gpumap::{Device, DeviceChoice, DeviceInfo, PtxChoice};

use crate::error::{Error, Result, printable};
use crate::kmer::Code;
use crate::table::{Room, Table};
use crate::threads;
use crate::words;

/// A device that is ready to hold tables.
#[derive(Debug)]
pub struct Engine {
    device: Device,
    no_cuda: Option<gpumap::Error>,
    is_checked: bool,
    /// All devices, where several work together; the one above is the first of them.
    group: Option<Ranks>,
}

impl Engine {
    /// Opens the device, or says why it cannot be had.
    pub fn open(choice: DeviceChoice, ptx: &PtxChoice) -> gpumap::Result<Self> {
        let (device, no_cuda) = Device::choose(choice, ptx)?;
        let device = match threads::of_device() {
            // Checked kernels are for tests, and run in as many threads as the machine has.
            Some(threads) if !device.is_cuda() && choice != DeviceChoice::Checked => {
                Device::cpu_with_threads(threads)
            }
            _ => device,
        };
        Ok(Self {
            device,
            no_cuda,
            is_checked: choice == DeviceChoice::Checked,
            group: None,
        })
    }

    /// Opens devices that work together, or says why they cannot.
    pub fn open_all(choices: &[DeviceChoice], ptx: &PtxChoice) -> gpumap::Result<Self> {
        let group = Ranks::new(&open_devices(choices, ptx)?)?;
        Ok(Self {
            device: group.devices()[0].clone(),
            no_cuda: None,
            is_checked: false,
            group: Some(group),
        })
    }

    /// The device for the summary, and why it is the CPU where that was not requested.
    pub fn name(&self) -> String {
        match &self.group {
            Some(group) => {
                let names: Vec<String> = group.devices().iter().map(Device::to_string).collect();
                names.join(" + ")
            }
            None => match &self.no_cuda {
                Some(reason) => {
                    let reason = printable(&words::of_library(reason));
                    format!("{}, no GPU: {reason}", self.device)
                }
                None => self.device.to_string(),
            },
        }
    }

    /// Whether it is a GPU.
    pub fn is_cuda(&self) -> bool {
        self.device.is_cuda()
    }

    /// The properties of the device.
    pub fn info(&self) -> Result<DeviceInfo> {
        self.device
            .info()
            .map_err(Error::while_doing("cannot ask the device"))
    }

    /// Why it is the CPU, where that was not requested.
    pub fn no_cuda(&self) -> Option<&gpumap::Error> {
        self.no_cuda.as_ref()
    }

    /// How many pairs to send at once: enough to hide what a call costs, few enough that the
    /// progress bar moves.
    pub fn batch(&self) -> usize {
        let of_one = if self.device.is_cuda() {
            1 << 22
        } else {
            1 << 19
        };
        of_one * self.group.as_ref().map_or(1, Ranks::len)
    }

    /// The device, the first of them if there are several.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether k-mers are made on the device: not on the CPU, whose threads make them while they parse, nor where several
    /// devices work together, which take batches of the host.
    pub fn makes_kmers(&self) -> bool {
        self.device.is_cuda() && self.group.is_none()
    }

    /// Whether k-mers are counted by sorting them in bins, without a map, if there is no capacity that they may exceed: on the CPU, which has caches for that.
    pub fn sorts_kmers(&self) -> bool {
        !self.device.is_cuda() && !self.is_checked && self.group.is_none()
    }

    /// Bytes of input for a thread at once.
    pub fn piece(&self) -> usize {
        if self.device.is_cuda() {
            1 << 22
        } else {
            1 << 18
        }
    }

    /// Threads that parse for a map at most: the CPU as a device needs the cores itself, and a thread parses several times
    /// what one counts.
    pub fn parsers(&self) -> usize {
        if self.device.is_cuda() { 32 } else { 2 }
    }

    /// An empty table.
    pub fn table<C: Code>(&self, room: Room) -> Table<C> {
        match &self.group {
            Some(group) => Table::over(group, room),
            None => Table::new(&self.device, room),
        }
    }
}
