// The states of Tools and Approvals, and of the frame around all screens, for people with disabilities.
//
//   TOOLCRIB_URL=http://127.0.0.1:8808 TOOLCRIB_KEY_ADMIN=tc_… TOOLCRIB_KEY_READER=tc_… \
//     TOOLCRIB_KEY_APPROVER=tc_… TOOLCRIB_KEY_OTHER_TENANT=tc_… node accessibility.mjs [STATE]
import { checkStates } from './accessible.mjs';
import { STATES, isOfRecords } from './states.mjs';

await checkStates(STATES.filter((state) => !isOfRecords(state)));
