//! Makes the captures of an NFS server and a client that belong together, and says what is true of them.
//!
//! A simulation of NFSv3 over TCP: on each connection a number of slots, each of which sends a call, waits for its
//! reply and thinks; a network between; and on each host a capture, with a clock of its own. So the two captures agree
//! as real ones do, and each instant is known exactly. What makes real captures hard can be added one by one.

mod capture;
mod messages;
mod options;
mod random;
mod simulation;
mod truth;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match options::Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("make_pair: {problem}");
            return ExitCode::from(2);
        }
    };
    match make(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make_pair: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(options: &options::Options) -> std::io::Result<()> {
    let (ops, captures) = simulation::Simulation::new(options)?.run()?;
    for (name, capture) in ["client", "server"].iter().zip(captures) {
        let packets = capture.packets;
        let missed = capture.missed;
        let bytes = capture.finish()?;
        eprintln!("{name}: {packets} packets, {missed} not captured, {bytes} bytes");
    }
    if options.truth {
        truth::write(&options.prefix, &ops)?;
    }
    Ok(())
}
