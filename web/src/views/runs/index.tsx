import { Blank } from "../../ui/blank";
import { Heading } from "../../ui/heading";

export default function Runs() {
  return (
    <>
      <Heading title="Runs" />
      <Blank title="Runs come here" />
    </>
  );
}
