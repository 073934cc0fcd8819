"""What Flink starts as a worker (`--environment_type PROCESS`): Beam's Python harness.

Beam's own boot program installs packages first; here they are there already.
"""

import argparse

import grpc
from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
from apache_beam.runners.worker.sdk_worker import SdkHarness


def main() -> None:
    """Asks the engine where its control port is, and works until it says stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    known, _ = parser.parse_known_args()
    with grpc.insecure_channel(known.provision_endpoint) as channel:
        answer = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel).GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(), metadata=[("worker_id", known.id)]
        )
    SdkHarness(answer.info.control_endpoint.url, worker_id=known.id).run()


if __name__ == "__main__":
    main()
