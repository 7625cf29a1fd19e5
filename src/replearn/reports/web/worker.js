// Runs beside the page, so that a long fit never freezes it. It has no way to the network.
import { Refusal } from "./exact.js";
import { replication } from "./lab.js";

self.onmessage = async ({ data: { study, file, options } }) => {
  try {
    const result = await replication(study, file, options, (progress, words) =>
      self.postMessage({ progress, words }));
    self.postMessage({ result });
  } catch (problem) {
    self.postMessage({ refused: problem.message, isFault: !(problem instanceof Refusal) });
  }
};
