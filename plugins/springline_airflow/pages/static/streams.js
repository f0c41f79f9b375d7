// Streams: all jobs and how they are, or the one that the address names.

import { asked, frame } from "./frame.js";
import { showJob } from "./job.js";
import { showJobs } from "./jobs.js";

const place = document.getElementById("main");
frame("streams");
if (asked("job")) showJob(place, asked("job"));
else showJobs(place);
