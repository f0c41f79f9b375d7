// The page of streams: all jobs, or the one that the address names.

import { queryValue, frame } from "./shell.js";
import { showJob } from "./job.js";
import { showJobs } from "./jobs.js";

const place = document.getElementById("main");
frame("streams");
if (queryValue("job")) showJob(place, queryValue("job"));
else showJobs(place);
