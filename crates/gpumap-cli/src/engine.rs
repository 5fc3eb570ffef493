//! Where the program meets the `gpumap` library: here the device, in [`crate::table`] the map.

use std::fs;

use gpumap::sharded::Ranks;
use gpumap::{Device, DeviceInfo};
use gpumap_benches::ladder;

use crate::choice::{DeviceChoice, DeviceList, PtxChoice};
use crate::error::{Error, Result};
use crate::table::{Room, Table};

/// A device that is ready to hold tables.
#[derive(Debug)]
pub struct Engine {
    device: Device,
    no_cuda: Option<gpumap::Error>,
    /// All devices, where several work together; the one above is the first of them.
    group: Option<Ranks>,
}

impl Engine {
    /// Opens the device, or says why it cannot be had. A PTX file is looked at on every machine,
    /// so that a wrong path is an error also where the CPU runs the kernels.
    pub fn open(choice: DeviceChoice, ptx: &PtxChoice) -> Result<Self> {
        let ptx = built(ptx)?;
        let unusable = Error::while_doing("cannot use the device");
        let (device, no_cuda) = match choice {
            DeviceChoice::Cpu => (Device::cpu(), None),
            DeviceChoice::Cuda(ordinal) => {
                (Device::cuda_with(ordinal, &ptx).map_err(unusable)?, None)
            }
            DeviceChoice::AnyCuda => (first_cuda(&ptx).map_err(unusable)?, None),
            DeviceChoice::Auto => match first_cuda(&ptx) {
                Ok(device) => (device, None),
                // The file was asked for by name, so nothing else may run in its place.
                Err(error @ gpumap::Error::Ptx { path: Some(_), .. }) => {
                    return Err(unusable(error));
                }
                Err(reason) => (Device::cpu(), Some(reason)),
            },
        };
        Ok(Self {
            device,
            no_cuda,
            group: None,
        })
    }

    /// Opens devices that work together, or says why they cannot.
    pub fn open_all(choices: &DeviceList, ptx: &PtxChoice) -> Result<Self> {
        let ptx = built(ptx)?;
        let unusable = Error::while_doing("cannot use the devices");
        let open = |choice: &DeviceChoice| match choice {
            DeviceChoice::Cuda(ordinal) => Device::cuda_with(*ordinal, &ptx),
            _ => Ok(Device::cpu_with(gpumap::executor::Config::default())),
        };
        let devices = choices.0.iter().map(open).collect::<gpumap::Result<_>>();
        let group = devices.and_then(|devices: Vec<Device>| Ranks::new(&devices));
        let group = group.map_err(unusable)?;
        Ok(Self {
            device: group.devices()[0].clone(),
            no_cuda: None,
            group: Some(group),
        })
    }

    /// The device for the summary.
    pub fn name(&self) -> String {
        match &self.group {
            Some(group) => {
                let names: Vec<String> = group.devices().iter().map(Device::to_string).collect();
                names.join(" + ")
            }
            None => self.device.to_string(),
        }
    }

    /// What there is to know about the device.
    pub fn info(&self) -> Result<DeviceInfo> {
        self.device
            .info()
            .map_err(Error::while_doing("cannot ask the device"))
    }

    /// Why it is the CPU, where that was not asked for.
    pub fn no_cuda(&self) -> Option<&gpumap::Error> {
        self.no_cuda.as_ref()
    }

    /// How many pairs to send at once: enough to hide what a call costs, few enough that the
    /// progress bar moves.
    pub fn batch(&self) -> usize {
        let of_one = if self.device.is_cuda() {
            1 << 22
        } else {
            1 << 17
        };
        of_one * self.group.as_ref().map_or(1, Ranks::len)
    }

    /// Measures the ladders; `on_row` sees each row as it comes.
    pub fn ladders(
        &self,
        options: &ladder::Options,
        on_row: impl FnMut(&ladder::Row),
    ) -> Result<ladder::Report> {
        ladder::run(&self.device, options, on_row).map_err(|error| Error::Bench {
            source: error.into(),
        })
    }

    /// An empty table.
    pub fn table(&self, room: Room) -> Table {
        match &self.group {
            Some(group) => Table::over(group, room),
            None => Table::new(&self.device, room),
        }
    }
}

/// The library's name for the device code; a file must be PTX.
fn built(ptx: &PtxChoice) -> Result<gpumap::PtxChoice> {
    Ok(match ptx {
        PtxChoice::Auto => gpumap::PtxChoice::Auto,
        PtxChoice::Sm70 => gpumap::PtxChoice::Sm70,
        PtxChoice::Sm90 => gpumap::PtxChoice::Sm90,
        PtxChoice::File(path) => {
            let text = fs::read_to_string(path).map_err(|source| Error::Open {
                path: path.clone(),
                source,
            })?;
            // The CPU has no use for PTX, but knows it when it sees it.
            Device::cpu()
                .register_ptx(&text)
                .map_err(|source| Error::Ptx {
                    path: path.clone(),
                    source,
                })?;
            gpumap::PtxChoice::File(path.clone())
        }
    })
}

fn first_cuda(ptx: &gpumap::PtxChoice) -> gpumap::Result<Device> {
    // Without a device, opening the first one says what is missing.
    let opened = (0..Device::cuda_count().max(1)).map(|ordinal| Device::cuda_with(ordinal, ptx));
    let mut first_error = None;
    for device in opened {
        match device {
            Ok(device) => return Ok(device),
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    Err(first_error.unwrap_or(gpumap::Error::NoDriver))
}
